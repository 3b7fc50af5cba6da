function b = compute_X_Omega(U, V, Omega)
% The entries Omega of U V', a column; in the place of SVP's mex function.
[i, j] = ind2sub([rows(U), rows(V)], Omega);
b = sum(U(i, :) .* V(j, :), 2);
end
