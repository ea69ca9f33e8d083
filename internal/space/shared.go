package space

// Shared is the annotation, "true", by which the system space lends a Service
// or a pod to tenants: the Service's name resolves for them and the pod may be
// reached by theirs. In a tenant's space it means nothing.
const Shared = "a4s.io/shared"
