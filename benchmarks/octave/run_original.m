function run_original(method, instance, counts)
% Run the authors' code of one method on the instance in a .mat file, from the start in that file, to
% f <= 1e-20; write the outer iterations, the Hessian products and the last f into a text file.
p = load(instance);
[I, J, X] = deal(double(p.rows(:)), double(p.columns(:)), p.values(:));
[m, n, r, k] = deal(double(p.shape(1)), double(p.shape(2)), numel(p.s), numel(X));
start = struct('U', p.U, 's', p.s(:), 'V', p.V);
switch method
    case 'LMaFit'
        found = lmafit(I, J, X, m, n, r, start);
    case 'LRGeomCG'
        found = lrgeomcg(I, J, X, m, n, r, start);
    case {'RTRMC-1', 'RTRMC-2'}
        opts = struct('method', 'rtr', 'order', str2double(method(end)), 'precon', false, 'verbosity', 0, ...
                      'maxiter', 3000, 'maxinner', 100, 'tolgradnorm', 0, 'tolcost', 0.5e-20);
        problem = buildproblem(I, J, X, [], m, n, r, 0);
        [~, ~, stats] = rtrmc(problem, opts, start.U);
        found = [stats(end).iter, sum([stats.numinner]), 2 * stats(end).cost];
    case 'SVP'
        found = singular_value_projection(I, J, X, m, n, r);
    case 'OptSpace'
        found = optspace(I, J, X, m, n, r);
    case 'LRGeom trust region'
        found = embedded_trust_region(I, J, X, m, n, r, start);
end
file = fopen(counts, 'w');
fprintf(file, '%g %g %.3e\n', found(1), found(2), found(3));
fclose(file);
end

function found = lmafit(I, J, X, m, n, r, start)
% f <= 1e-20 in LMaFit's measure, the residual over the norm of the data.
k = numel(X);
opts = struct('tol', 1e-10 * sqrt(k) / norm(X), 'maxit', 3000, 'print', 0, 'Zfull', 0, 'DoQR', 1, ...
              'est_rank', 0, 'init', 1, 'X', start.U, 'Y', diag(start.s) * start.V');
[~, ~, out] = lmafit_mc_adp(m, n, r, struct('Ik', I, 'Jk', J), X', opts);
found = [out.iter, 0, (out.relres * max(1, norm(X)))^2 / k];
end

function found = lrgeomcg(I, J, X, m, n, r, start)
opts = struct('maxit', 3000, 'abs_grad_tol', 0, 'rel_grad_tol', 0, 'abs_f_tol', 1e-10 * sqrt(numel(X)), ...
              'rel_f_tol', 0, 'stagnation_detection', false, 'rel_tol_change_res', 0, 'verbosity', 0);
prob = struct('use_blas', false, 'n1', m, 'n2', n, 'r', r, 'Omega_i', I, 'Omega_j', J, 'm', numel(X), ...
              'data', X, 'temp_omega', sparse(I, J, X, m, n), 'mu', 0, 'has_testing', false);
x0 = prepx(prob, struct('U', start.U, 'sigma', start.s, 'V', start.V));
[x, history] = LRGeomCG(prob, opts, x0);
found = [rows(history), 0, x.err' * x.err / numel(X)];
end

function found = singular_value_projection(I, J, X, m, n, r)
% It starts at W = 0: its first projection is our start, and is not counted.
params = struct('tol', 1e-10, 'vtol', 0, 'mxitr', 3000, 'verbosity', 0);
try
    [~, ~, ~, t, err] = svp(sub2ind([m, n], I, J), X, m, n, r, params);
    found = [t - 2, 0, err^2];
catch failure
    assert(strncmp(failure.message, 'Divergence', 10), failure.message);
    found = [Inf, 0, Inf];
end
end

function found = optspace(I, J, X, m, n, r)
% Its own start: the SVD that we start from, where no row or column is trimmed. It measures scaled data.
unit = sqrt(numel(X) * r) / norm(X);
[~, ~, ~, dist] = OptSpace(sparse(I, J, X, m, n), r, 3000, 1e-10 * unit);
found = [numel(dist) - 1, 0, (dist(end) / unit)^2];
end

function found = embedded_trust_region(I, J, X, m, n, r, start)
% Manopt's factory and solver with their defaults; f = mean square as in the paper.
k = numel(X);
problem.M = fixedrankembeddedfactory(m, n, r);
at = @(x) spmaskmult(x.U * x.S, x.V', I, J) - X;
along = @(x, h) spmaskmult([x.U * h.M + h.Up, x.U], [x.V, h.Vp]', I, J);
problem.cost = @(x) sum(at(x).^2) / k;
problem.egrad = @(x) sparse(I, J, 2 / k * at(x), m, n);
problem.ehess = @(x, h) sparse(I, J, 2 / k * along(x, h), m, n);
opts = struct('verbosity', 0, 'maxiter', 300, 'maxinner', 100, 'tolgradnorm', 0, 'tolcost', 1e-20);
x0 = struct('U', start.U, 'S', diag(start.s), 'V', start.V);
[~, ~, stats] = trustregions(problem, x0, opts);
found = [stats(end).iter, sum([stats.numinner]), stats(end).cost];
end
