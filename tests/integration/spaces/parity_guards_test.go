package spaces_test

import (
	"fmt"
	"net/http"
	"strings"
)

// parityGuards are what objects of tenants may not contain.
func parityGuards() []*parityIntention {
	pod := func(spec, container string) string {
		return `{"metadata":{"name":"x"},"spec":{` + spec +
			`"schedulerName":"nobody","containers":[{"name":"c","image":"i"` + container + `}]}}`
	}
	dry := func(body string) parityRequest {
		return parityRequest{method: http.MethodPost, query: []string{"dryRun=All"}, body: body}
	}
	// guard is an intention that is a refusal with one of these texts.
	guard := func(
		name, what, why string, examples func(*parityRun) []*parityRequest, texts ...string,
	) *parityIntention {
		return &parityIntention{name: name, what: what, why: why, examples: examples,
			explain: func(p *parityPair) bool {
				return (p.refused("403", texts...) || p.refused("422", texts...) || p.refused("400", texts...) ||
					p.refused("413", texts...)) && p.accept()
			}}
	}
	return []*parityIntention{
		guard("devices", "403 for `adminAccess` in claims of devices, and for the label of namespaces that "+
			"upstream wants for it", "it is access to devices that others use",
			func(run *parityRun) []*parityRequest {
				return asks(run, "namespaces", dry(`{"metadata":{"name":"par-x","labels":`+
					`{"resource.kubernetes.io/admin-access":"true"}}}`))
			}, "gives access to devices that others use"),
		guard("pods", "403 for pods beyond the level `baseline`, for `csi` volumes, and for sources of volumes "+
			"beyond `restricted` ([what a tenant cannot do](#what-a-tenant-cannot-do))",
			"they run on nodes that all share",
			func(run *parityRun) []*parityRequest {
				return asks(run, "pods", dry(pod(`"hostNetwork":true,`, "")),
					dry(pod("", `,"securityContext":{"privileged":true}`)),
					dry(pod(`"volumes":[{"name":"v","nfs":{"server":"192.0.2.9","path":"/"}}],`, "")),
					dry(pod(`"volumes":[{"name":"v","csi":{"driver":"nfs.csi.k8s.io"}}],`, "")))
			}, `violates PodSecurity`, `an administrator of the cluster`),
		guard("places of pods", "403 for pods that name their node, tolerate everything or the taints of the "+
			"cluster's own nodes, or have a priority of the cluster's own pods", "nodes are the cluster's",
			func(run *parityRun) []*parityRequest {
				return asks(run, "pods", dry(pod(`"nodeName":"n",`, "")),
					dry(pod(`"tolerations":[{"operator":"Exists"}],`, "")),
					dry(pod(`"priorityClassName":"system-node-critical",`, "")))
			}, "spec.nodeName", "spec.tolerations", "the priority class"),
		guard("volumes", "403 for PersistentVolumes of other sources than an administrator allows",
			"what the nodes reach is not the tenant's",
			func(run *parityRun) []*parityRequest {
				return asks(run, "persistentvolumes", dry(`{"metadata":{"name":"par-x"},`+
					`"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],"hostPath":{"path":"/x"}}}`))
			}, "hostPath and local volumes are directories of nodes", "can be anybody's"),
		guard("addresses", "403 for `spec.externalIPs` of Services, and for endpoints inside the cluster that are "+
			"not the tenant's pods", "the network of all tenants believes them",
			func(run *parityRun) []*parityRequest {
				return append(asks(run, "services",
					dry(`{"metadata":{"name":"x"},"spec":{"externalIPs":["192.0.2.9"],"ports":[{"port":80}]}}`)),
					asks(run, "endpointslices.discovery.k8s.io", dry(`{"metadata":{"name":"x"},`+
						`"addressType":"IPv4","endpoints":[{"addresses":["10.42.9.9"]}]}`))...)
			}, "spec.externalIPs would catch", "is inside the cluster and not that of a pod"),
		guard("status", "403 for what the cluster believes in the status of objects ([field by "+
			"field](../reference/tenancy-tables.md#fields-of-the-system))",
			"addresses, limits, devices and the use of nodes are reckoned by it",
			func(run *parityRun) []*parityRequest {
				r := parityRequest{
					method: http.MethodPatch,
					name:   "par-1",
					path:   "/status",
					query:  []string{"dryRun=All"},
					header: [][2]string{{"Content-Type", "application/merge-patch+json"}},
					body:   `{"status":{"podIP":"10.42.0.9","podIPs":[{"ip":"10.42.0.9"}]}}`,
				}
				return asks(run, "pods", r)
			}, "is written by the system only"),
		guard("tokens of nodes", "403 for tokens of service accounts that are bound to anything but a Pod or a Secret",
			"upstream looks for it among the objects of the cluster",
			func(run *parityRun) []*parityRequest {
				return asks(run, "serviceaccounts", parityRequest{method: http.MethodPost, namespace: "default",
					name: "default", path: "/token", query: []string{"dryRun=All"},
					body: `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"boundObjectRef":` +
						`{"apiVersion":"v1","kind":"Node","name":"n"}}}`})
			}, "tokens of a tenant are bound to a Pod or a Secret"),
		guard("the API's own objects", "403 for writing to the Service `kubernetes` in `default`, "+
			"its Endpoints and its EndpointSlice", "they are the same in all spaces",
			func(run *parityRun) []*parityRequest {
				return asks(run, "services", parityRequest{method: http.MethodDelete, namespace: "default",
					name: "kubernetes", query: []string{"dryRun=All"}})
			}, "it is where the API is found"),
		guard("copies of names", "400 for a JSON patch that copies or moves the name of a namespace, "+
			"or of an object that has none, to where there is none",
			"the tenant is part of such names inside: set the value instead",
			func(run *parityRun) []*parityRequest {
				return asks(run, "configmaps", parityRequest{
					method: http.MethodPatch,
					name:   "par-1",
					query:  []string{"dryRun=All"},
					header: [][2]string{{"Content-Type", "application/json-patch+json"}},
					body:   `[{"op":"copy","from":"/metadata/namespace","path":"/metadata/labels/copied"}]`,
				})
			}, "is not possible in the space of a tenant, set the value instead"),
		guard("definitions", "422 for a CustomResourceDefinition of a group that the API serves",
			"it would hide what all spaces have",
			func(run *parityRun) []*parityRequest {
				return asks(run, "customresourcedefinitions.apiextensions.k8s.io",
					dry(`{"metadata":{"name":"foos.apps"},"spec":{"group":"apps","scope":"Cluster",`+
						`"names":{"plural":"foos","kind":"Foo"},"versions":[{"name":"v1","served":true,`+
						`"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`))
			}, "the API of the cluster serves this group itself"),
		guard("long names", "422 for a namespace whose name has, with that of the tenant, more than 62 characters",
			"together they are the value of a label",
			func(run *parityRun) []*parityRequest {
				return asks(run, "namespaces", dry(`{"metadata":{"name":"`+strings.Repeat("n", 60)+`"}}`))
			}, "characters"),
		guard("large bodies", "400 or 413 for bodies that are [nested deeper than 200 levels or have more members, "+
			"operations or lines than any client sends](../developing/adr/0029-requests-at-the-edge.md)",
			"one request must not take all of a processor",
			func(run *parityRun) []*parityRequest {
				var members []string
				for i := range 10_001 {
					members = append(members, fmt.Sprintf(`"a%d":""`, i))
				}
				return asks(run, "configmaps",
					dry(`{"metadata":{"name":"x"},"data":{`+strings.Join(members, ",")+`}}`))
			}, "the body is too much work"),
	}
}
