// Package supervisor is the part of a server that lets nodes join: it hands
// out the CA, the cluster configuration and the certificates of nodes, and
// serves the status and token commands of administrators. It shares the port
// of the API server, in front of its handler chain.
//
// Invariants: nothing but the ping and the CA is served without a credential;
// a node certificate is only signed for the machine that first used the node
// name, which a password in an immutable Secret decides; subject and names of
// a certificate are decided here, and never those of the API server itself;
// a certificate alone changes no address of its node, and is good only in the
// life of the node that it was signed in (package nodelife);
// secrets are neither logged nor returned, and are compared in constant time.
//
// server and cmd may import it. Of Kubernetes it imports client-go only.
package nodeapi
