package spaces_test

import (
	"net/http"
	"reflect"
	"strings"

	"github.com/a4s-io/a4s/internal/workload"
)

// parityPods are what pods of tenants are given, and what is left out of them.
func parityPods() []*parityIntention {
	dry := func(body string) parityRequest {
		return parityRequest{method: http.MethodPost, query: []string{"dryRun=All"},
			body: strings.Replace(body, `"generateName":"x-"`, `"name":"x"`, 1)}
	}
	return []*parityIntention{{
		name: "what pods are given",
		what: "tolerations that the tenant may not have are left out of pods, with a `Warning`, and pods that say " +
			"their type by annotation alone get a RuntimeClass of it " +
			"([what a tenant cannot do](#what-a-tenant-cannot-do)); 403 for a type that there is not",
		why: "nodes are kept for somebody by their taints, and what a machine takes is counted by its class",
		examples: func(run *parityRun) []*parityRequest {
			return asks(run, "pods", dry(podBody("", `"schedulerName":"nobody",`+
				`"tolerations":[{"key":"team","operator":"Exists"}],`)),
				dry(podBody(typedAs("vm"), `"schedulerName":"nobody",`)),
				dry(podBody(typedAs("unikernel"), `"schedulerName":"nobody",`)))
		},
		explain: func(p *parityPair) bool {
			if p.refused("403", workload.ErrUnknownType.Error(), workload.ErrConflict.Error()) {
				return p.accept()
			}
			if p.code(0) != "201" || p.code(1) != "201" {
				return false
			}
			var specs, headers [2]map[string]any
			for i := range p.trees {
				body, _ := p.trees[i]["body"].(map[string]any)
				specs[i], _ = body["spec"].(map[string]any)
				headers[i], _ = p.trees[i]["header"].(map[string]any)
			}
			met := false
			for _, field := range []string{"tolerations", "runtimeClassName", "overhead"} {
				if !reflect.DeepEqual(specs[0][field], specs[1][field]) {
					delete(specs[0], field)
					delete(specs[1], field)
					met = true
				}
			}
			if met {
				delete(headers[1], "Warning")
			}
			return met
		},
	}}
}
