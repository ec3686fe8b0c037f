package main

import (
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"bardo.money/gateway/cmd/bardo/adminapi"
	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/admin"
)

// groupsCommand is `bardo projects` or `bardo owners`.
func groupsCommand(kind policy.Holder, short string) *cobra.Command {
	c := cli.Group(string(kind)+"s", short)
	c.AddCommand(groupCommand(kind, "create"), groupCommand(kind, "update"), groupsListCommand(kind))
	return c
}

// groupFlags are the flags of a project's or an owner's fields.
type groupFlags struct{ name, owner, day, month string }

func (f *groupFlags) add(c *cobra.Command, kind policy.Holder) {
	c.Flags().StringVar(&f.name, "name", "", "a name for people")
	c.Flags().StringVar(&f.day, "limit-usd-day", "", "most that its keys may spend together per UTC day; 0 means no limit")
	c.Flags().StringVar(&f.month, "limit-usd-month", "", "most that its keys may spend together per UTC month; 0 means no limit")
	if kind == policy.OfProject {
		c.Flags().StringVar(&f.owner, "owner", "", "the owner that it belongs to")
	}
}

// fields converts the given flags to fields.
func (f *groupFlags) fields(c *cobra.Command, kind policy.Holder) (g admin.GroupFields, err error) {
	given := c.Flags().Changed
	if given("name") {
		g.Name = admin.Set(f.name)
	}
	if err := dollarFlag(c, "limit-usd-day", f.day, &g.SpendDay); err != nil {
		return g, err
	}
	if err := dollarFlag(c, "limit-usd-month", f.month, &g.SpendMonth); err != nil {
		return g, err
	}
	if kind == policy.OfProject && given("owner") {
		g.Owner = admin.Set(f.owner)
	}
	return g, nil
}

// groupCommand creates or updates a group.
func groupCommand(kind policy.Holder, verb string) *cobra.Command {
	var f groupFlags
	short := map[string]string{"create": "Create a" + an(kind) + string(kind), "update": "Change a" + an(kind) + string(kind) + "; fields without a flag keep their values"}
	c := &cobra.Command{Use: verb + " ID", Short: short[verb], Args: cli.OneArg("the " + string(kind) + "'s id")}
	f.add(c, kind)
	asJSON := cli.JSONFlag(c)
	settings.Flag(c)
	c.RunE = withBooks(func(c *cobra.Command, api *http.Client, args []string) error {
		fields, err := f.fields(c, kind)
		if err != nil {
			return err
		}
		at, method, body := groupsPath(kind), http.MethodPost, any(&admin.NewGroup{ID: admin.Set(args[0]), GroupFields: fields})
		if verb == "update" {
			at, method, body = at+"/"+url.PathEscape(args[0]), http.MethodPatch, &fields
		}
		g, err := adminapi.Call[admin.Group](c.Context(), api, method, at, body)
		if err != nil {
			return err
		}
		if *asJSON {
			return cli.PrintJSON(c, g)
		}
		return printGroups(c, []admin.Group{g})
	})
	return c
}

// groupsPath is the admin API's path of a kind of group.
func groupsPath(kind policy.Holder) string { return "/" + string(kind) + "s" }

// an completes the indefinite article: "n " for a kind whose name takes "an", else " ".
func an(kind policy.Holder) string {
	if kind == policy.OfOwner {
		return "n "
	}
	return " "
}

func groupsListCommand(kind policy.Holder) *cobra.Command {
	c := &cobra.Command{Use: "list", Short: "List the " + string(kind) + "s, with what was spent", Args: cli.NoArgs}
	asJSON := cli.JSONFlag(c)
	settings.Flag(c)
	c.RunE = withBooks(func(c *cobra.Command, api *http.Client, _ []string) error {
		groups, err := adminapi.All(c.Context(), api, groupsPath(kind), func(g *admin.Group) string { return g.ID })
		if err != nil {
			return err
		}
		if *asJSON {
			return cli.PrintJSON(c, groups)
		}
		return printGroups(c, groups)
	})
	return c
}

func printGroups(c *cobra.Command, groups []admin.Group) error {
	rows := make([][]string, len(groups))
	for i := range groups {
		rows[i] = groupCells(&groups[i])
	}
	return cli.PrintTable(c.OutOrStdout(), []string{"ID", "NAME", "OWNER", "SPENT/DAY", "LIMIT/DAY", "SPENT/MONTH", "LIMIT/MONTH"}, rows)
}

func groupCells(i *admin.Group) []string {
	limit := func(m *policy.Micro) string {
		if m == nil {
			return "none"
		}
		return cli.Dollars(*m)
	}
	return []string{i.ID, i.Name, i.Owner, cli.Dollars(i.Day), limit(i.SpendDay), cli.Dollars(i.Month), limit(i.SpendMonth)}
}
