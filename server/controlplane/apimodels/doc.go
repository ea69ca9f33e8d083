// Package apimodels builds the OpenAPI models of the kinds that a4s adds to the core
// group. The types of fields for server-side apply are derived from them too.
//
// Invariants: a model depends on exactly the models that its properties refer to.
//
// The registries of our kinds import it.
package apimodels
