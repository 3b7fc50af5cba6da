function A = multfullsparse(B, C, mask)
% B D, D being C in the pattern of mask; RTRMC writes C into mask itself instead.
[i, j] = find(mask);
A = B * sparse(i, j, C, rows(mask), columns(mask));
end
