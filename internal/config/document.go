package config

import (
	"fmt"
	"strings"

	"bardo.money/gateway/internal/configfile"
	"bardo.money/gateway/internal/kind"
)

// Tables returns the generated parts of the users' page on the configuration, by the names of their markers: keys, variables, not built.
func Tables(kinds ...kind.Kind) map[string]string {
	return map[string]string{"keys": keysTable(kinds), "variables": variablesTable(kinds), "not built": laterTable()}
}

// keysTable returns a table for each section of the schema.
func keysTable(kinds kindsOf) string {
	var b strings.Builder
	section := ""
	for _, f := range Schema(kinds...) {
		if !f.Built {
			continue
		}
		if top, _, below := strings.Cut(f.Key, "."); top != section || !below {
			section = top
			about := f.Doc + "\n\n"
			if f.Type != configfile.Table.String() {
				about = "" // it is in the row
			}
			fmt.Fprintf(&b, "\n### %s\n\n%s| key | expected | default | what it does |\n|---|---|---|---|\n", section, about)
			if about != "" {
				continue
			}
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.Key, f.Type, code(f.Default), f.Doc)
	}
	return b.String() + "\n"
}

func laterTable() string {
	var b strings.Builder
	b.WriteString("\n| key | what it is for, or what to use instead |\n|---|---|\n")
	for _, l := range laterKeys {
		fmt.Fprintf(&b, "| `%s` | %s |\n", l.key, l.doc)
	}
	return b.String() + "\n"
}

func variablesTable(kinds kindsOf) string {
	var b strings.Builder
	b.WriteString("\n| variable | what it does |\n|---|---|\n")
	for _, k := range kinds {
		enables := "enables `providers.%s`, and is its key if the file has none"
		if k.Keyless {
			enables = "is the key of `providers.%s` if the file has none"
		}
		if k.URLVariable != "" {
			fmt.Fprintf(&b, "| `%s` | is the base URL of `providers.%s` if the file has none |\n", k.URLVariable, k.Name)
		}
		for _, v := range k.Variables {
			fmt.Fprintf(&b, "| `%s` | "+enables+" |\n", v, k.Name)
		}
	}
	for _, k := range kinds {
		if k.Regional() {
			fmt.Fprintf(&b, "| `AWS_REGION`, else `AWS_DEFAULT_REGION` | is `providers.%s.region` if the file has none |\n", k.Name)
			fmt.Fprintf(&b, "| `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN` | sign the requests of `providers.%s` if the file has that section and there is no key |\n", k.Name)
		}
	}
	b.WriteString("| `BANKR_WALLET_ADDRESS` | is `providers.bankr.wallet` if the file has none |\n")
	for _, o := range overrides {
		if laterAround(o.key) != "" {
			fmt.Fprintf(&b, "| `%s` | accepted with a warning: `%s` has no effect yet |\n", o.variable, o.key)
			continue
		}
		fmt.Fprintf(&b, "| `%s` | overrides `%s` |\n", o.variable, o.key)
	}
	return b.String() + "\n"
}

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}
