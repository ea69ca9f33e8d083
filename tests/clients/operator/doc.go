// Command operator is an operator as they are made everywhere: a manager of
// controller-runtime with a resource of its own, a mutating, a validating and,
// in its second release, a conversion webhook, leader election and a
// certificate that it makes for itself. It knows nothing of a4s.
//
// The two releases differ in the versions of their API, its schema, its
// defaults and what they allow. deploy/ has the manifests of each.
package main
