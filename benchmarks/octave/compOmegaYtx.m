function z = compOmegaYtx(m, n, y, I, J, x)
% Y' x, Y being y at (I, J); in the place of SVP's mex function.
z = accumarray(J, y .* x(I), [n, 1]);
end
