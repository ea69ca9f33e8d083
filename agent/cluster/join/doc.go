// Package joining is the agent's half of joining a cluster: it decides
// whether to trust a server, proves who the node is, and brings home the
// certificates and the configuration that the node works with.
//
// Invariants: no credential leaves before the server has proved to hold a
// certificate of the CA that the token pins; private keys are made here and
// stay here, with mode 0600; what cannot get better by waiting (wrong token,
// wrong CA, a node name that is taken) ends the join, everything else is
// retried until the context ends.
//
// agent and cmd may import it. It imports no Kubernetes code.
package join
