package gatewaysuite

import (
	// What is built here, so that the module knows its dependencies.
	_ "sigs.k8s.io/gateway-api/conformance"
	_ "sigs.k8s.io/gateway-api/conformance/echo-basic/grpcechoserver"
	_ "sigs.k8s.io/gateway-api/conformance/echo-basic/tcpserver"
	_ "sigs.k8s.io/gateway-api/conformance/echo-basic/udpechoserver"
)
