function z = compOmegaYx(m, n, y, I, J, x)
% Y x, Y being y at (I, J); in the place of SVP's mex function.
z = accumarray(I, y .* x(J), [m, 1]);
end
