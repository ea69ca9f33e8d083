// Package dsn reads what --datastore-endpoint names: the URLs of an etcd, or a
// database in the notation that k3s uses for it.
//
// Invariants: what String and Redact return has no secret of the endpoint in
// it; nothing here connects to anything.
//
// Anyone may import it. It imports only the standard library.
package dsn
