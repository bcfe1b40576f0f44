// Multiplexers of the cells that the ECP5 has for them: behind two LUTs stands one that chooses
// between these (PFUMX), behind two of those another one (L6MUX21), and so on, all in one tile. A LUT
// has two of the sources. Left to ABC, which knows LUTs alone, they take a third more.

module \$_MUX4_ (input A, B, C, D, S, T, output Y);
  wire low, high;
  LUT4 #(.INIT(16'hCACA)) choose_low (.A(A), .B(B), .C(S), .D(1'b0), .Z(low));
  LUT4 #(.INIT(16'hCACA)) choose_high (.A(C), .B(D), .C(S), .D(1'b0), .Z(high));
  PFUMX choose (.BLUT(low), .ALUT(high), .C0(T), .Z(Y));
endmodule

module \$_MUX8_ (input A, B, C, D, E, F, G, H, S, T, U, output Y);
  wire low, high;
  \$_MUX4_ choose_low (.A(A), .B(B), .C(C), .D(D), .S(S), .T(T), .Y(low));
  \$_MUX4_ choose_high (.A(E), .B(F), .C(G), .D(H), .S(S), .T(T), .Y(high));
  L6MUX21 choose (.D0(low), .D1(high), .SD(U), .Z(Y));
endmodule

module \$_MUX16_ (
  input A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P, S, T, U, V, output Y
);
  wire low, high;
  \$_MUX8_ choose_low (
    .A(A), .B(B), .C(C), .D(D), .E(E), .F(F), .G(G), .H(H), .S(S), .T(T), .U(U), .Y(low)
  );
  \$_MUX8_ choose_high (
    .A(I), .B(J), .C(K), .D(L), .E(M), .F(N), .G(O), .H(P), .S(S), .T(T), .U(U), .Y(high)
  );
  L6MUX21 choose (.D0(low), .D1(high), .SD(V), .Z(Y));
endmodule
