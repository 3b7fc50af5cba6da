function X = cholsolvecell(R, B)
% Solve R_j' R_j x_j = b_j for the columns of B, all at once; R as of spbuildmatrix.
[r, n] = size(B);
X = B;
for a = 1 : r
    for c = 1 : a - 1
        X(a, :) = X(a, :) - reshape(R(c, a, :), 1, n) .* X(c, :);
    end
    X(a, :) = X(a, :) ./ reshape(R(a, a, :), 1, n);
end
for a = r : -1 : 1
    for c = a + 1 : r
        X(a, :) = X(a, :) - reshape(R(a, c, :), 1, n) .* X(c, :);
    end
    X(a, :) = X(a, :) ./ reshape(R(a, a, :), 1, n);
end
end
