package gate

import "k8s.io/controller-manager/pkg/clientbuilder"

// Builder makes the clients of controllers. Upstream's name for it is here and nowhere else.
type Builder = clientbuilder.ControllerClientBuilder
