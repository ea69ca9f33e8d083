// Package load counts what each tenant asks of the servers of service groups: writes, and
// bytes of events that are sent to watches (design: service-groups, 4). Each server counts
// what goes through it and publishes its rates, so that whoever balances groups can add
// them up.
//
// Invariants: counting takes no memory for a request, and none for more than a bounded
// number of tenants; what is published is a ConfigMap of kube-system, once a minute at
// most; what a server published last counts for a few minutes only.
//
// The wiring of the server imports it, and server/groups/balance.
package load
