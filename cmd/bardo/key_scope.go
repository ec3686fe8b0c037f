package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"bardo.money/gateway/policy/admin"
)

// scopeFlags are the flags that restrict a key's use.
type scopeFlags struct {
	spendMonth, expires, project string
	models, subsystems, origins  []string
}

func (f *scopeFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.spendMonth, "limit-usd-month", "", "most it may spend per UTC month; 0 means no limit")
	c.Flags().StringVar(&f.expires, "expires", "", "when it ends: a time as 2006-01-02T15:04:05Z, a day, a duration such as 720h, or never")
	c.Flags().StringVar(&f.project, "project", "", "the project that it belongs to, or none")
	c.Flags().StringSliceVar(&f.models, "model", nil, "model that it may use, or a prefix such as 'claude-*', or \"any\"; may be repeated")
	c.Flags().StringSliceVar(&f.subsystems, "subsystem", nil, "subsystem that it may be used by, or \"any\"; may be repeated")
	c.Flags().StringSliceVar(&f.origins, "origin", nil, "origin of web pages that it may be used by, such as https://app.example, or \"any\"; may be repeated")
}

// scopeNames are the names of these flags.
var scopeNames = []string{"limit-usd-month", "expires", "project", "model", "subsystem", "origin"}

// fields sets the given flags in a key's fields.
func (f *scopeFlags) fields(c *cobra.Command, k *admin.KeyFields) (err error) {
	given := c.Flags().Changed
	if err := dollarFlag(c, "limit-usd-month", f.spendMonth, &k.SpendMonth); err != nil {
		return err
	}
	if given("expires") {
		if k.Expires, err = parseExpiry(f.expires, time.Now()); err != nil {
			return err
		}
	}
	if given("project") {
		k.Project = projectFlag(f.project)
	}
	for _, list := range []struct {
		flag  string
		given []string
		into  *admin.Field[[]string]
	}{{"model", f.models, &k.Models}, {"subsystem", f.subsystems, &k.Subsystems}, {"origin", f.origins, &k.Origins}} {
		if given(list.flag) {
			*list.into = listFlag(list.given)
		}
	}
	return nil
}

// projectFlag reads a key's project; "none" removes the key from its project.
func projectFlag(s string) admin.Field[string] {
	if s = strings.TrimSpace(s); s == "none" {
		return admin.Null[string]()
	}
	return admin.Set(s)
}

// parseExpiry reads when a key expires.
func parseExpiry(s string, now time.Time) (admin.Field[time.Time], error) {
	if s == "never" {
		return admin.Null[time.Time](), nil
	}
	if d, err := time.ParseDuration(s); err == nil && d > 0 {
		return admin.Set(now.Add(d).Truncate(time.Second)), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil && t.After(now) {
			return admin.Set(t), nil
		}
	}
	return admin.Field[time.Time]{}, fmt.Errorf("--expires %q, expected a time to come as 2006-01-02T15:04:05Z, a day, a duration such as 720h, or never", s)
}
