package joinapi

// PathTenantUse returns TenantUse. GET; admin certificate.
const PathTenantUse = Prefix + "top/tenants"

// TenantUse is what tenants have used of a server in the last minute.
type TenantUse struct {
	// Server is the name of the server, and Partition that of its partition.
	Server    string `json:"server"`
	Partition string `json:"partition,omitempty"`
	// Processors are how many requests can compute at once.
	Processors int `json:"processors"`
	// Seconds is how long the last minute was: less if the server has just started.
	Seconds float64 `json:"seconds"`
	// Tenants begin with the one that has used most.
	Tenants []UseOfTenant `json:"tenants"`
}

// UseOfTenant is what a tenant has used. Clients that nobody knows are one together, and so
// are tenants that use little when there are many.
type UseOfTenant struct {
	Tenant string `json:"tenant"`
	// SeatSeconds is how long its requests computed, WaitedSeconds how long they waited until
	// they could.
	SeatSeconds   float64 `json:"seatSeconds"`
	WaitedSeconds float64 `json:"waitedSeconds"`
	// Requests are those that began, Refused by reason (full, late, gone) those that did not.
	Requests int64            `json:"requests"`
	Refused  map[string]int64 `json:"refused,omitempty"`
	// Work is what for, beginning with what used most.
	Work []UseForWork `json:"work"`
}

// UseForWork is a part of it, by the kind of work: gets, lists, watches, writes, connections,
// documents, policies, hooks or controllers.
type UseForWork struct {
	Work          string  `json:"work"`
	SeatSeconds   float64 `json:"seatSeconds"`
	WaitedSeconds float64 `json:"waitedSeconds"`
	Requests      int64   `json:"requests"`
}

// WorkOfControllers is the kind of work that has no seat: it is counted, not measured.
const WorkOfControllers = "controllers"
