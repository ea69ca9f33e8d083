// Package nodeidentity keeps nodes of one partition out of what is another's. All
// partitions share the CA of client certificates, so a certificate says in a group which
// partition signed it, and each partition compares that with what it knows of the node:
// its own nodes, and copies of those of others with their label.
//
// Invariants:
//   - a certificate is good for a node that its partition has; a node that is not known is
//     one that registers itself, which it can in its own partition only;
//   - a certificate without the group is one of the home partition, so no other partition
//     signs one, not by a CertificateSigningRequest either;
//   - what is judged is who sent the request, whomever it impersonates or asks about.
//
// Only server may import it.
package nodeidentity
