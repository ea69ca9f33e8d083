package edge

import (
	"strings"

	"github.com/a4s-io/a4s/internal/space"
)

// address is a request path without its tenant.
type address struct {
	// tenant is the space named in the path, "" on a short path.
	tenant string
	// path is the short path.
	path string
}

// splitAddress takes the tenant out of a path: /tenants/<t>/api/v1/... and
// /api/v1/tenants/<t>/... and /apis/<group>/<version>/tenants/<t>/...
//
// What names the Tenant object itself (/api/v1/tenants/<t>, .../status) is a
// short path; so is a custom resource that happens to be called tenants.
func splitAddress(path string) address {
	if rest, ok := strings.CutPrefix(path, "/tenants/"); ok {
		tenant, tail, _ := strings.Cut(rest, "/")
		if tenant != "" {
			return address{tenant: tenant, path: "/" + tail}
		}
		return address{path: path}
	}
	segments := 2 // api, version
	if strings.HasPrefix(path, "/apis/") {
		segments = 3 // apis, group, version
	} else if !strings.HasPrefix(path, "/api/") {
		return address{path: path}
	}
	head, tail := cutSegments(path, segments)
	if rest, ok := strings.CutPrefix(tail, "/watch/tenants/"); ok {
		if a := splitTenant(head+"/watch", rest); a.tenant != "" {
			return a
		}
	}
	if rest, ok := strings.CutPrefix(tail, "/tenants/"); ok {
		if a := splitTenant(head, rest); a.tenant != "" {
			return a
		}
	}
	return address{path: path}
}

// splitTenant reads <t>/<more> after "tenants/".
func splitTenant(head, rest string) address {
	tenant, more, _ := strings.Cut(rest, "/")
	// The slash at the end is kept: proxied servers may care for it.
	switch strings.TrimSuffix(more, "/") {
	case "", "status", "scale":
		return address{}
	}
	return address{tenant: tenant, path: head + "/" + more}
}

// cutSegments splits a path after n segments.
func cutSegments(path string, n int) (head, tail string) {
	i := 0
	for ; n > 0; n-- {
		next := strings.IndexByte(path[i+1:], '/')
		if next < 0 {
			return path, ""
		}
		i += 1 + next
	}
	return path[:i], path[i:]
}

// resolve is the pseudo-code of the seed: which space a request addresses.
// The empty answer is the composite view of the whole cluster.
func resolve(inPath, ofUser, defaultTenant string) string {
	if ofUser == "" && defaultTenant != "" {
		ofUser = defaultTenant
	}
	if inPath != "" {
		return inPath
	}
	if !space.IsSystem(ofUser) {
		return ofUser
	}
	return ""
}
