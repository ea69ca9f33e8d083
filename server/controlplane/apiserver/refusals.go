package apiserver

import (
	"net/http"

	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericfilters "k8s.io/apiserver/pkg/server/filters"
)

// audited puts in front of an answer what records requests in upstream's
// chain, in the same order: audit and access log. The user has to be in the
// context of the request.
func audited(c *genericapiserver.Config) func(http.Handler) http.Handler {
	return func(h http.Handler) http.Handler {
		h = genericapifilters.WithAudit(h, c.AuditBackend, c.AuditPolicyRuleEvaluator, c.LongRunningFunc)
		h = genericfilters.WithHTTPLogging(h)
		h = genericapifilters.WithLatencyTrackers(h)
		h = genericapifilters.WithRequestInfo(h, c.RequestInfoResolver)
		h = genericapifilters.WithRequestReceivedTimestamp(h)
		return genericapifilters.WithAuditInit(h)
	}
}
