package keys

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/store"
)

// Group is a project, which groups keys, or an owner, which groups projects. A limit of zero means none.
type Group struct {
	Kind       policy.Holder // policy.OfProject or policy.OfOwner
	ID         string
	Name       string
	Owner      string // of a project
	SpendDay   policy.Micro
	SpendMonth policy.Micro
	CreatedAt  time.Time // zero means now
}

// Errors of changes of groups.
var (
	ErrUnknownGroup = errors.New("there is none with this id")
	ErrGroupExists  = errors.New("the id is taken")
	ErrGroupID      = errors.New("an id has 1 to 64 letters, digits, dots, hyphens and underscores, and begins with a letter or digit")
)

var groupID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// table is the table of a kind of groups.
func table(kind policy.Holder) string {
	if kind == policy.OfOwner {
		return "owner"
	}
	return "project"
}

// CreateGroup stores a project or an owner. The error is ErrGroupID, ErrGroupExists, ErrUnknownGroup for the owner of a project, ErrAmount, or the store's.
func CreateGroup(b *store.Book, g *Group) error {
	if !groupID.MatchString(g.ID) {
		return ErrGroupID
	}
	if known, err := hasGroup(b, g.Kind, g.ID); err != nil || known {
		return errors.Join(err, ErrGroupExists)
	}
	return storeGroup(b, g)
}

// UpdateGroup reads a group, applies change and stores it. Kind, id and creation time cannot be changed. The error is ErrUnknownGroup, also for an unknown owner,
// that of change, ErrAmount, or the store's.
func UpdateGroup(b *store.Book, kind policy.Holder, id string, change func(*Group) error) error {
	groups, err := Groups(context.Background(), b, kind, id)
	if err != nil {
		return err
	}
	if len(groups) == 0 {
		return ErrUnknownGroup
	}
	g := groups[0]
	if err := change(&g); err != nil {
		return err
	}
	g.Kind, g.ID, g.CreatedAt = kind, id, groups[0].CreatedAt
	return storeGroup(b, &g)
}

// Groups reads projects, or owners: the one with an id, or all if id is "", sorted by id.
func Groups(ctx context.Context, db store.Queryer, kind policy.Holder, id string) ([]Group, error) {
	owner := "owner"
	if kind == policy.OfOwner {
		owner = "''"
	}
	return store.ReadAll(ctx, db, func(s store.Scanner) (g Group, err error) {
		var created int64
		g.Kind = kind
		err = s.Scan(&g.ID, &g.Name, &g.Owner, &g.SpendDay, &g.SpendMonth, &created)
		g.CreatedAt = timeAt(created)
		return g, err
	}, `SELECT id, name, `+owner+`, spend_per_day, spend_per_month, created_at FROM `+table(kind)+` WHERE CAST(?1 AS TEXT) IN ('', id) ORDER BY id`, id)
}

func hasGroup(b *store.Book, kind policy.Holder, id string) (bool, error) {
	var n int64
	err := b.Row(`SELECT count(*) FROM `+table(kind)+` WHERE id = ?`, id).Scan(&n)
	return n > 0, err
}

// storeGroup writes a group's row.
func storeGroup(b *store.Book, g *Group) error {
	if g.SpendDay < 0 || g.SpendMonth < 0 {
		return ErrAmount
	}
	if g.Kind == policy.OfOwner {
		_, err := b.Exec(`INSERT INTO owner (id, name, spend_per_day, spend_per_month, created_at) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET name = excluded.name, spend_per_day = excluded.spend_per_day, spend_per_month = excluded.spend_per_month`,
			g.ID, g.Name, g.SpendDay, g.SpendMonth, g.CreatedAt.UnixMicro())
		return err
	}
	if known, err := hasGroup(b, policy.OfOwner, g.Owner); err != nil || !known {
		return errors.Join(err, fmt.Errorf("owner %s: %w", g.Owner, ErrUnknownGroup))
	}
	_, err := b.Exec(`INSERT INTO project (id, name, owner, spend_per_day, spend_per_month, created_at) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET name = excluded.name, owner = excluded.owner, spend_per_day = excluded.spend_per_day, spend_per_month = excluded.spend_per_month`,
		g.ID, g.Name, g.Owner, g.SpendDay, g.SpendMonth, g.CreatedAt.UnixMicro())
	return err
}

// checkProject returns ErrUnknownGroup for a key of an unknown project.
func checkProject(b *store.Book, k *Row) error {
	if k.Project == "" {
		return nil
	}
	if known, err := hasGroup(b, policy.OfProject, k.Project); err != nil || !known {
		return errors.Join(err, fmt.Errorf("project %s: %w", k.Project, ErrUnknownGroup))
	}
	return nil
}

// groups are the limits of a key's project and owner when the key's row was read.
type groups struct {
	project, owner policy.Budget
}

// budgets returns those that have a limit.
func (g *groups) budgets() (list []policy.Budget) {
	for _, b := range [...]policy.Budget{g.project, g.owner} {
		if b.ID != "" && (b.PerDay > 0 || b.PerMonth > 0) {
			list = append(list, b)
		}
	}
	return list
}

const (
	selectGroups = `coalesce(k.project, ''), coalesce(p.spend_per_day, 0), coalesce(p.spend_per_month, 0), coalesce(p.owner, ''), coalesce(o.spend_per_day, 0),
	coalesce(o.spend_per_month, 0)`
	joinGroups = ` LEFT JOIN project p ON p.id = k.project LEFT JOIN owner o ON o.id = p.owner`
)

// fields are the scan targets of selectGroups.
func (g *groups) fields() []any {
	g.project.Holder, g.owner.Holder = policy.OfProject, policy.OfOwner
	return []any{&g.project.ID, &g.project.PerDay, &g.project.PerMonth, &g.owner.ID, &g.owner.PerDay, &g.owner.PerMonth}
}
