function R = spbuildmatrix(mask, U, shift)
% Upper Cholesky factors of U' D_j U + shift I for each column j of mask, r x r x n, all columns at once.
[r, n] = deal(columns(U), columns(mask));
R = zeros(r, r, n);
for a = 1 : r
    for b = a : r
        s = (U(:, a) .* U(:, b)).' * mask + shift * (a == b);
        for c = 1 : a - 1
            s = s - reshape(R(c, a, :) .* R(c, b, :), 1, n);
        end
        if a == b
            R(a, a, :) = sqrt(s);
        else
            R(a, b, :) = s ./ reshape(R(a, a, :), 1, n);
        end
    end
end
end
