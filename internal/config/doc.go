// Package config turns flags, environment variables and configuration files
// into one Config struct per mode.
//
// A value comes from, in falling precedence: the command line, an A4S_*
// environment variable, /etc/a4s/config.yaml followed by config.yaml.d/*.yaml
// in alphabetical order, the default. Validate then checks the whole struct.
//
// Invariants: every setting is declared once, in a table of Settings;
// the file key of a setting is its flag name, `key+` appends to what earlier
// files said; an unknown key or flag is an error that names the nearest one.
// Nothing here touches the machine except to read the files.
//
// cmd, server and agent may import it. It imports no Kubernetes server code.
//
//go:generate go run ../../scripts/gendocs ../../docs/reference/configuration.md
package config
