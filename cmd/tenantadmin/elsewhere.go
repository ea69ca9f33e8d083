package tenantadmin

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

// placedWithin bounds the question how many tenants the cluster has: home may be away.
const placedWithin = 2 * time.Second

// Elsewhere says that other partitions have more tenants than those of a list, empty if they do
// not, or if nobody says so soon.
func (a *Admin) Elsewhere(ctx context.Context, list *tenantapi.TenantList) string {
	ctx, cancel := context.WithTimeout(ctx, placedWithin)
	defer cancel()
	page, err := a.placements.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return ""
	}
	placed, here := len(page.Items), 0
	if page.RemainingItemCount != nil {
		placed += int(*page.RemainingItemCount)
	}
	for i := range list.Items {
		if list.Items[i].Name != space.System {
			here++
		}
	}
	if placed <= here {
		return ""
	}
	return fmt.Sprintf("These are the tenants of one partition. The cluster has %d: kubectl get tenantplacements",
		placed)
}
