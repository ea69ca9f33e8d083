package mux

import "github.com/a4s-io/a4s/internal/noderuntime"

// State is what is known of one registered runtime.
type State = noderuntime.State

// Runtime is a runtime to register.
type Runtime = noderuntime.Runtime
