package reconcile

import "k8s.io/apimachinery/pkg/runtime/schema"

// Charts are HelmCharts.
func Charts() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "helm.cattle.io", Version: "v1", Resource: "helmcharts"}
}

// Configs are HelmChartConfigs.
func Configs() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "helm.cattle.io", Version: "v1", Resource: "helmchartconfigs"}
}
