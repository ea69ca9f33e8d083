package spaces_test

import (
	"strings"

	"github.com/a4s-io/a4s/server/tenancy/tenants/allowances"
)

// deviceWays are those of the allowances of devices, by the annotation.
func deviceWays() map[string][]way {
	const (
		inClaim   = ownClaims
		inMade    = claimTemplates
		list      = "fast.example.com"
		foreign   = "is not one of this space's"
		access    = "gives access to devices that others use"
		namespace = "/api/v1/namespaces"
	)
	request := func(more string) string {
		return `"spec":{"devices":{"requests":[{"name":"r",` + more + `}]}}`
	}
	exactly := func(class, more string) string {
		return request(`"exactly":{"deviceClassName":"` + class + `"` + more + `}`)
	}
	claim := func(spec string) string { return `{"metadata":{"generateName":"x-"},` + spec + `}` }
	template := func(spec string) string { return `{"metadata":{"generateName":"x-"},"spec":{` + spec + `}}` }
	first := request(`"firstAvailable":[{"name":"a","deviceClassName":"fast.example.com"},` +
		`{"name":"b","deviceClassName":"slow.example.com"}]`)
	resource := func(class string) string {
		return strings.Replace(podBody("", ""), `"image":"i"`, `"image":"i","resources":{"limits":{`+
			`"deviceclass.resource.kubernetes.io/`+class+`":"1"}}`, 1)
	}
	labelled := `{"metadata":{"name":"looks","labels":{"resource.kubernetes.io/admin-access":"true"}}}`
	admin := exactly("fast.example.com", `,"adminAccess":true`)
	return map[string][]way{
		allowances.DeviceClasses: {
			{kind: byAbsence, name: "without a list", path: inClaim, body: claim(exactly("slow.example.com", ""))},
			{kind: byAbsence, name: "no device at all", path: inPods, body: podBody("", ""), value: list},
			{kind: byField, name: "of a claim", path: inClaim, body: claim(exactly("slow.example.com", "")),
				value:   list,
				refused: foreign},
			{kind: byField, name: "of an alternative", path: inClaim, body: claim(first), value: list,
				refused: foreign},
			{kind: byField, name: "of a template", path: inMade, body: template(exactly("slow.example.com", "")),
				value: list, refused: foreign},
			{kind: byField, name: "by a resource", path: inPods, body: resource("slow.example.com"), value: list,
				refused: foreign},
			{kind: byField, name: "a taint of devices", path: inClaim, value: list,
				refused: "tolerates the taint team",
				body:    claim(exactly("fast.example.com", `,"tolerations":[{"key":"team","operator":"Exists"}]`))},
			{kind: byField, name: "allowed", path: inClaim, body: claim(exactly("fast.example.com", "")), value: list},
		},
		allowances.DeviceAdminAccess: {
			{kind: byAbsence, name: "none is wanted", path: inClaim, body: claim(exactly("fast.example.com", ""))},
			{kind: byField, name: "of a claim", path: inClaim, body: claim(admin), refused: access},
			{kind: byField, name: "of a template", path: inMade, body: template(admin), refused: access},
			{kind: byField, name: "of a namespace", path: namespace, body: labelled, refused: access},
			{kind: byField, name: "not allowed", path: namespace, body: labelled, value: "false", refused: access},
			{kind: byField, name: "allowed", path: namespace, body: labelled, value: "true"},
		},
	}
}
