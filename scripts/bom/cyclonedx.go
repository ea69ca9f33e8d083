package main

import (
	"bytes"
	"slices"

	"github.com/CycloneDX/cyclonedx-go"
)

// cycloneDX is the bill of materials. It has no time and no serial number,
// which would make two builds differ.
func (s *shipment) cycloneDX() ([]byte, error) {
	own := s.parts[s.programs[0].parts[0]]
	bom := cyclonedx.NewBOM()
	bom.SerialNumber = ""
	bom.Metadata = &cyclonedx.Metadata{Component: &cyclonedx.Component{
		BOMRef: "a4s", Type: cyclonedx.ComponentTypeApplication, Name: "a4s", Version: own.version,
		Hashes:   &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: s.programs[0].sha256}},
		Licenses: licenses(own),
	}}
	components := []cyclonedx.Component{}
	carried := []string{}
	dependencies := []cyclonedx.Dependency{}
	for _, p := range s.programs[1:] {
		components = append(components, cyclonedx.Component{
			BOMRef: "program:" + p.name, Type: cyclonedx.ComponentTypeApplication, Name: p.name,
			Hashes: &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: p.sha256}},
		})
		carried = append(carried, "program:"+p.name)
	}
	for _, p := range s.sorted() {
		if p == own {
			continue
		}
		components = append(components, component(p))
	}
	for i, p := range s.programs {
		ref, on := "program:"+p.name, slices.DeleteFunc(slices.Clone(p.parts), func(key string) bool {
			return key == own.key()
		})
		if i == 0 {
			ref, on = "a4s", append(on, carried...)
		}
		slices.Sort(on)
		on = slices.Compact(on)
		dependencies = append(dependencies, cyclonedx.Dependency{Ref: ref, Dependencies: &on})
	}
	bom.Components = &components
	bom.Dependencies = &dependencies

	var b bytes.Buffer
	err := cyclonedx.NewBOMEncoder(&b, cyclonedx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom,
		cyclonedx.SpecVersion1_5)
	return b.Bytes(), err
}

func component(p *part) cyclonedx.Component {
	c := cyclonedx.Component{
		BOMRef: p.key(), Type: cyclonedx.ComponentTypeLibrary, Name: p.name, Version: p.version,
		PackageURL: "pkg:golang/" + p.name + "@" + p.version, Licenses: licenses(p),
	}
	if p.library != "" {
		c.PackageURL = "pkg:deb/debian/" + p.name + "@" + p.version + "?arch=" + p.arch
	}
	if p.sum != "" {
		c.Properties = &[]cyclonedx.Property{{Name: "go.sum", Value: p.sum}}
	}
	return c
}

func licenses(p *part) *cyclonedx.Licenses {
	all := cyclonedx.Licenses{}
	for _, id := range p.licenses {
		all = append(all, cyclonedx.LicenseChoice{License: &cyclonedx.License{ID: id}})
	}
	return &all
}
