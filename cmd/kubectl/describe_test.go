package kubectl

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/a4s-io/a4s/server/partition/allocations"
)

// TestServiceGroupsOfEndpoints: each subset says its group, as the seed shows it.
func TestServiceGroupsOfEndpoints(t *testing.T) {
	const text = `Name:         kubernetes
Annotations:  a4s.io/service-groups: 0,1
Subsets:
  Addresses:          172.30.0.147
  NotReadyAddresses:  <none>

  Addresses:          172.30.0.148
  NotReadyAddresses:  <none>
`
	const want = `Name:         kubernetes
Annotations:  a4s.io/service-groups: 0,1
Subsets:
  Service Group Id:   0
  Addresses:          172.30.0.147
  NotReadyAddresses:  <none>

  Service Group Id:   1
  Addresses:          172.30.0.148
  NotReadyAddresses:  <none>
`
	if got := withGroups(text, "0,1"); got != want {
		t.Errorf("got %s", got)
	}
	for _, none := range []string{"", "0", "0,1,2"} {
		if got := withGroups(text, none); got != text {
			t.Errorf("by %q it is %s", none, got)
		}
	}
}

// TestSharesOfANode: at the partition of a node, where the pods of others are not, one sees what
// they take.
func TestSharesOfANode(t *testing.T) {
	shares := []allocations.Share{
		{Partition: "main", Pods: 3, Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1500m"),
			corev1.ResourceMemory: resource.MustParse("1Gi")}},
		{Partition: "tp2", Pods: 1},
	}
	const want = `Name:  n
  cpu  0 (0%)
Requested by pods of all partitions:
  Partition  Pods  CPU    Memory
  ---------  ----  ---    ------
  main       3     1500m  1Gi
  tp2        1     0      0
Events:  <none>
`
	if got := withShares("Name:  n\n  cpu  0 (0%)\nEvents:  <none>\n", shares); got != want {
		t.Errorf("got %s", got)
	}
	if got := withShares("Name:  n\n", nil); got != "Name:  n\n" {
		t.Errorf("without shares: %s", got)
	}
}
