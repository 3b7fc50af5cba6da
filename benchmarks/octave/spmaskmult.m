function d = spmaskmult(A, B, I, J)
% The entries (I, J) of A B, a column; in the place of RTRMC's mex function.
d = sum(A(I, :).' .* B(:, J), 1).';
end
