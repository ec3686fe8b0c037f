package main

import (
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/admin"
)

// printKey prints one key, unless there is an error.
func printKey(c *cobra.Command, k *admin.Key, err error, asJSON bool) error {
	if err != nil {
		return err
	}
	if asJSON {
		return cli.PrintJSON(c, k)
	}
	return printKeys(c, []admin.Key{*k})
}

func printKeys(c *cobra.Command, keys []admin.Key) error {
	rows := make([][]string, len(keys))
	for i, k := range keys {
		rows[i] = keyCells(&k)
	}
	return cli.PrintTable(c.OutOrStdout(), keyHeads, rows)
}

// keyHeads are the heads of keyCells.
var keyHeads = []string{"ID", "NAME", "TIER", "BALANCE", "LIMIT/DAY", "RPM", "FROM", "POLICIES", "STATE", "CREATED", "FOR"}

// limitsOf returns the limits of a key that differ from the defaults: names and values as in printKeys.
func limitsOf(k *admin.Key) (lines [][2]string) {
	row, defaults := keyCells(k), keyCells(&admin.Key{})
	for i, head := range keyHeads {
		switch head {
		case "LIMIT/DAY", "RPM", "FROM", "POLICIES", "STATE", "FOR":
			if row[i] != defaults[i] {
				lines = append(lines, [2]string{strings.ToLower(head), row[i]})
			}
		}
	}
	return lines
}

func keyCells(k *admin.Key) []string {
	balance, limit, rpm, from, state := "metered", "none", "default", "anywhere", "active"
	if k.Balance != nil {
		balance = cli.Dollars(*k.Balance)
	}
	if k.SpendDay != nil {
		limit = cli.Dollars(*k.SpendDay)
	}
	if k.RPM != nil {
		rpm = strconv.Itoa(*k.RPM)
		if *k.RPM == 0 {
			rpm = "none"
		}
	}
	if len(k.Networks) > 0 {
		from = joinNetworks(k.Networks)
	}
	if k.ReadOnly {
		state = "read only"
	}
	if k.Publishable {
		state = "publishable"
	}
	if k.Expires != nil && !time.Now().Before(*k.Expires) {
		state = "expired"
	}
	if k.Revoked != nil {
		state = "revoked"
	}
	return []string{string(k.ID), k.Name, string(k.Tier), balance, limit, rpm, from, guardsText(k.Guards), state, k.Created.Format(time.DateOnly), scopeText(k)}
}

// guardsText is a key's own policies in a table cell: injection=block,pii=mask.
func guardsText(g policy.Guards) string {
	var own []string
	if g.Injection != "" {
		own = append(own, "injection="+g.Injection)
	}
	if g.PII != "" {
		own = append(own, "pii="+g.PII)
	}
	if own == nil {
		return defaultPolicy
	}
	return strings.Join(own, ",")
}

func joinNetworks(networks []netip.Prefix) string {
	text := make([]string, len(networks))
	for i, n := range networks {
		text[i] = n.String()
	}
	return strings.Join(text, ",")
}

// scopeText is a key's restrictions in a table cell.
func scopeText(s *admin.Key) string {
	var parts []string
	add := func(name string, list []string) {
		if len(list) > 0 {
			parts = append(parts, name+"="+strings.Join(list, ","))
		}
	}
	add("models", s.Models)
	add("subsystems", s.Subsystems)
	add("origins", s.Origins)
	if s.Project != "" {
		parts = append(parts, "project="+s.Project)
	}
	if s.SpendMonth != nil {
		parts = append(parts, "month="+cli.Dollars(*s.SpendMonth))
	}
	if s.Expires != nil {
		parts = append(parts, "until="+s.Expires.Format(time.RFC3339))
	}
	if parts == nil {
		return "everything"
	}
	return strings.Join(parts, " ")
}
