function A = multsparsefull(C, B, mask)
% D B, D being C in the pattern of mask; RTRMC writes C into mask itself instead.
[i, j] = find(mask);
A = sparse(i, j, C, rows(mask), columns(mask)) * B;
end
