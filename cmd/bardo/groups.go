package main

import (
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
)

// groupsCommand is `bardo projects` or `bardo owners`.
func groupsCommand(kind policy.Holder, short string) *cobra.Command {
	c := cli.Group(string(kind)+"s", short)
	c.AddCommand(groupCommand(kind, "create"), groupCommand(kind, "update"), groupsListCommand(kind))
	return c
}

// groupFlags are the flags for the fields of a project or an owner.
type groupFlags struct{ name, owner, day, month string }

func (f *groupFlags) add(c *cobra.Command, kind policy.Holder) {
	c.Flags().StringVar(&f.name, "name", "", "a name for people")
	c.Flags().StringVar(&f.day, "limit-usd-day", "", "most that its keys may spend together per UTC day; 0 means no limit")
	c.Flags().StringVar(&f.month, "limit-usd-month", "", "most that its keys may spend together per UTC month; 0 means no limit")
	if kind == policy.OfProject {
		c.Flags().StringVar(&f.owner, "owner", "", "the owner that it belongs to")
	}
}

// apply puts the flags that were given into a group.
func (f *groupFlags) apply(c *cobra.Command, g *ledger.Group) (err error) {
	given := c.Flags().Changed
	if given("name") {
		if g.Name, err = parseName(f.name); err != nil {
			return err
		}
	}
	if given("limit-usd-day") {
		if g.SpendDay, err = parseAmount("--limit-usd-day", f.day); err != nil {
			return err
		}
	}
	if given("limit-usd-month") {
		if g.SpendMonth, err = parseAmount("--limit-usd-month", f.month); err != nil {
			return err
		}
	}
	if g.Kind == policy.OfProject && given("owner") {
		g.Owner = f.owner
	}
	return nil
}

// groupCommand creates or updates a group.
func groupCommand(kind policy.Holder, verb string) *cobra.Command {
	var f groupFlags
	short := map[string]string{"create": "Create a" + an(kind) + string(kind), "update": "Change a" + an(kind) + string(kind) + "; fields without a flag keep their values"}
	c := &cobra.Command{Use: verb + " ID", Short: short[verb], Args: cli.OneArg("the " + string(kind) + "'s id")}
	f.add(c, kind)
	asJSON := cli.JSONFlag(c)
	settings.Flag(c)
	c.RunE = withLedger(func(c *cobra.Command, t tool, args []string) (err error) {
		if verb == "create" {
			g := ledger.Group{Kind: kind, ID: args[0], Name: args[0]}
			if err = f.apply(c, &g); err == nil {
				err = t.books.CreateGroup(c.Context(), g)
			}
		} else {
			err = t.books.UpdateGroup(c.Context(), kind, args[0], func(g *ledger.Group) error { return f.apply(c, g) })
		}
		if err != nil {
			return err
		}
		return t.printGroups(c, kind, args[0], *asJSON)
	})
	return c
}

// an ends the article of a kind.
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
	c.RunE = withLedger(func(c *cobra.Command, t tool, _ []string) error { return t.printGroups(c, kind, "", *asJSON) })
	return c
}

// groupInfo is a group as --json prints it.
type groupInfo struct {
	ID         string        `json:"id"`
	Name       string        `json:"name"`
	Owner      string        `json:"owner,omitempty"` // of a project
	SpendDay   *policy.Micro `json:"limit_usd_day"`   // null: no limit
	SpendMonth *policy.Micro `json:"limit_usd_month"`
	Day        policy.Micro  `json:"spent_usd_day"`
	Month      policy.Micro  `json:"spent_usd_month"`
	Created    time.Time     `json:"created_at"`
}

func (t tool) groupInfo(c *cobra.Command, g *ledger.Group) (i groupInfo, err error) {
	i = groupInfo{ID: g.ID, Name: g.Name, Owner: g.Owner, Created: g.CreatedAt.UTC()}
	if g.SpendDay > 0 {
		i.SpendDay = &g.SpendDay
	}
	if g.SpendMonth > 0 {
		i.SpendMonth = &g.SpendMonth
	}
	now, of := time.Now().UTC(), policy.Budget{Holder: g.Kind, ID: g.ID}
	var day, month error
	i.Day, day = t.books.SpentOf(c.Context(), of, now)
	i.Month, month = t.books.SpentOf(c.Context(), of, time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC))
	return i, errors.Join(day, month)
}

// printGroups prints one group, or all of them.
func (t tool) printGroups(c *cobra.Command, kind policy.Holder, id string, asJSON bool) error {
	groups, err := t.books.Groups(c.Context(), kind)
	if err != nil {
		return err
	}
	list := []groupInfo{}
	for i := range groups {
		if id != "" && groups[i].ID != id {
			continue
		}
		info, err := t.groupInfo(c, &groups[i])
		if err != nil {
			return err
		}
		list = append(list, info)
	}
	switch {
	case asJSON && id != "" && len(list) == 1:
		return cli.PrintJSON(c, list[0])
	case asJSON:
		return cli.PrintJSON(c, list)
	}
	rows := make([][]string, len(list))
	for i := range list {
		rows[i] = list[i].cells()
	}
	return cli.PrintTable(c.OutOrStdout(), []string{"ID", "NAME", "OWNER", "SPENT/DAY", "LIMIT/DAY", "SPENT/MONTH", "LIMIT/MONTH"}, rows)
}

func (i *groupInfo) cells() []string {
	limit := func(m *policy.Micro) string {
		if m == nil {
			return "none"
		}
		return cli.Dollars(*m)
	}
	return []string{i.ID, i.Name, i.Owner, cli.Dollars(i.Day), limit(i.SpendDay), cli.Dollars(i.Month), limit(i.SpendMonth)}
}

// parseProject reads the project of a key; none takes it out of its project.
func parseProject(s string) (string, error) {
	switch s = strings.TrimSpace(s); s {
	case "":
		return "", errors.New("--project is empty, expected the id of a project, or none")
	case "none":
		return "", nil
	}
	return s, nil
}
