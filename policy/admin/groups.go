package admin

import (
	"context"
	"errors"
	"time"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
)

// Group is a project or an owner, with the amounts that its keys spent.
type Group struct {
	ID         string        `json:"id"`
	Name       string        `json:"name"`
	Owner      string        `json:"owner,omitempty"` // of a project
	SpendDay   *policy.Micro `json:"limit_usd_day"`   // null: no limit
	SpendMonth *policy.Micro `json:"limit_usd_month"`
	Day        policy.Micro  `json:"spent_usd_day"`
	Month      policy.Micro  `json:"spent_usd_month"`
	Created    time.Time     `json:"created_at"`
}

// GroupFields are the members of a project or an owner that can be set when it is created and changed later.
type GroupFields struct {
	Name       Field[string]       `json:"name,omitzero"`
	Owner      Field[string]       `json:"owner,omitzero"`         // of a project
	SpendDay   Field[policy.Micro] `json:"limit_usd_day,omitzero"` // null and 0: no limit
	SpendMonth Field[policy.Micro] `json:"limit_usd_month,omitzero"`
}

// NewGroup is the request to create a project or an owner.
type NewGroup struct {
	ID Field[string] `json:"id,omitzero"`
	GroupFields
}

// apply sets the given fields of a group.
func (f *GroupFields) apply(g *ledger.Group) (err error) {
	if f.Name.Given {
		if g.Name, err = parseName(f.Name.Value); err != nil {
			return err
		}
	}
	if f.Owner.Given {
		if g.Kind == policy.OfOwner {
			return invalid("owner", ": only a project has one")
		}
		g.Owner = f.Owner.Value
	}
	if f.SpendDay.Given {
		if g.SpendDay, err = parseAmount("limit_usd_day", f.SpendDay.Value); err != nil {
			return err
		}
	}
	if f.SpendMonth.Given {
		g.SpendMonth, err = parseAmount("limit_usd_month", f.SpendMonth.Value)
	}
	return err
}

// CreateGroup stores a project or an owner, and returns it.
func (s *Service) CreateGroup(ctx context.Context, kind policy.Holder, n *NewGroup) (Group, error) {
	g := ledger.Group{Kind: kind, ID: n.ID.Value, Name: n.ID.Value}
	if err := n.apply(&g); err != nil {
		return Group{}, err
	}
	if err := s.Books.CreateGroup(ctx, g); err != nil {
		return Group{}, faultOf(ownerError(err))
	}
	return s.Group(ctx, kind, g.ID)
}

// UpdateGroup changes a project or an owner, and returns it.
func (s *Service) UpdateGroup(ctx context.Context, kind policy.Holder, id string, f *GroupFields) (Group, error) {
	if _, err := s.Group(ctx, kind, id); err != nil {
		return Group{}, err
	}
	if *f == (GroupFields{}) {
		return Group{}, nothingToChange()
	}
	if err := s.Books.UpdateGroup(ctx, kind, id, f.apply); err != nil {
		return Group{}, faultOf(ownerError(err))
	}
	return s.Group(ctx, kind, id)
}

// ownerError names the project's member in an error about an owner that does not exist.
func ownerError(err error) error {
	if errors.Is(err, ledger.ErrUnknownGroup) {
		f := fault.New(fault.InvalidRequest, "owner: there is none with this id", err)
		f.Param = "owner"
		return f
	}
	return err
}

// Group returns one project or owner.
func (s *Service) Group(ctx context.Context, kind policy.Holder, id string) (Group, error) {
	groups, err := s.Books.Groups(ctx, kind)
	if err != nil {
		return Group{}, faultOf(err)
	}
	for i := range groups {
		if groups[i].ID == id {
			return s.withSpending(ctx, &groups[i])
		}
	}
	return Group{}, fault.Newf(fault.NotFound, "%s %s: there is none with this id", kind, fault.Clip(id))
}

// Groups returns the projects or the owners, by id; more reports whether others follow.
func (s *Service) Groups(ctx context.Context, kind policy.Holder, p Page) (groups []Group, more bool, err error) {
	rows, err := s.Books.Groups(ctx, kind)
	if err != nil {
		return nil, false, faultOf(err)
	}
	if rows, more, err = page(rows, p, func(g *ledger.Group) string { return g.ID }); err != nil {
		return nil, false, err
	}
	groups = make([]Group, len(rows))
	for i := range rows {
		if groups[i], err = s.withSpending(ctx, &rows[i]); err != nil {
			return nil, false, err
		}
	}
	return groups, more, nil
}

// withSpending returns a group with the amounts that its keys spent.
func (s *Service) withSpending(ctx context.Context, g *ledger.Group) (Group, error) {
	out := Group{
		ID: g.ID, Name: g.Name, Owner: g.Owner, Created: g.CreatedAt.UTC(), SpendDay: limitOrNull(g.SpendDay), SpendMonth: limitOrNull(g.SpendMonth),
	}
	var err error
	out.Day, out.Month, err = s.spentOf(ctx, policy.Budget{Holder: g.Kind, ID: g.ID})
	return out, err
}
