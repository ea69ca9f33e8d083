package apiserver

import (
	"fmt"
	"strings"

	apimachineryvalidation "k8s.io/apimachinery/pkg/api/validation"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"

	"github.com/a4s-io/a4s/internal/space"
)

// These two variables of upstream are, with the one in server/addons/localstorage,
// the only global state that a4s changes: everything upstream validates namespaces
// with them, and inside the control plane a tenant's namespace has a composite name.
// They are set before anything runs and never again.
func init() {
	apimachineryvalidation.ValidateNamespaceName = validateNamespaceName
	corevalidation.ValidateNamespaceName = validateNamespaceName
}

// validateNamespaceName accepts what upstream does, and composite names.
func validateNamespaceName(name string, prefix bool) []string {
	tenant, native := space.SplitNamespace(name)
	if tenant == space.System {
		return apimachineryvalidation.NameIsDNSLabel(name, prefix)
	}
	var problems []string
	if err := space.ValidateTenant(tenant); err != nil {
		problems = append(problems, err.Error())
	}
	if strings.Contains(native, ".") {
		problems = append(problems, fmt.Sprintf("a namespace is a DNS label and has no dot: %q", native))
	} else {
		problems = append(problems, apimachineryvalidation.NameIsDNSLabel(native, prefix)...)
	}
	if room := space.Room(tenant); len(native) > room {
		problems = append(problems,
			fmt.Sprintf("%q has %d characters, at most %d are possible in this space", native, len(native), room))
	}
	return problems
}
