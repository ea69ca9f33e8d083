module github.com/a4s-io/a4s/scripts/bom

go 1.26.8

require (
	github.com/CycloneDX/cyclonedx-go v0.12.0
	github.com/google/licenseclassifier/v2 v2.0.0
	golang.org/x/mod v0.42.0
	sigs.k8s.io/yaml v1.6.0
)

require (
	github.com/davecgh/go-spew v1.1.1 // indirect
	github.com/sergi/go-diff v1.1.0 // indirect
	go.yaml.in/yaml/v2 v2.4.2 // indirect
)
