package catalog

import (
	"strings"

	"bardo.money/gateway/policy"
)

// VendorOf returns the vendor of the models with an id's prefix, "" if there is none. Ids with an organisation ("org/model") have none.
func (c *Catalog) VendorOf(id string) policy.ProviderID {
	if strings.Contains(id, "/") {
		return ""
	}
	return c.vendorOfFamily(c.familyByPrefix(id))
}

// vendorOfFamily returns the vendor that serves a family, "" if there is none.
func (c *Catalog) vendorOfFamily(family string) policy.ProviderID {
	for i := range c.vendors {
		if v := &c.vendors[i]; v.Family == family {
			return policy.ProviderID(v.Vendor)
		}
	}
	return ""
}

// BatchPct returns the price of tokens in a vendor's batch API, in percent of their price; 0 if it has none.
func (c *Catalog) BatchPct(vendor policy.ProviderID) int {
	for i := range c.vendors {
		if v := &c.vendors[i]; policy.ProviderID(v.Vendor) == vendor && v.BatchPct > 0 {
			return v.BatchPct
		}
	}
	return 0
}

// signsThinking reports whether the models of a family sign their reasoning, and refuse a history with other signatures.
func (c *Catalog) signsThinking(family string) bool {
	for i := range c.vendors {
		if v := &c.vendors[i]; v.Family == family {
			return v.SignsThinking
		}
	}
	return false
}

func (c *Catalog) familyByPrefix(id string) string {
	for i := range c.vendors {
		for _, p := range c.vendors[i].Prefixes {
			if len(id) >= len(p) && shaped(id[:len(p)], p) {
				return c.vendors[i].Family
			}
		}
	}
	return ""
}

// familyOf guesses a family from an id: by its prefix, else by the letters at the start of its last part.
func (c *Catalog) familyOf(id string) string {
	if family := c.familyIn(id); family != "" {
		return family
	}
	name := lastPart(id)
	letters := strings.IndexFunc(name, func(r rune) bool { return r < 'a' || r > 'z' })
	if letters < 0 {
		return name
	}
	return name[:letters]
}

// familyIn returns the family whose prefix an id has, after the name of an organisation ("org/model") or a cloud ("us.anthropic.claude-opus-4-1"); ""
// if there is none.
func (c *Catalog) familyIn(id string) string {
	name := lastPart(id)
	for {
		if family := c.familyByPrefix(name); family != "" {
			return family
		}
		_, rest, ok := strings.Cut(name, ".")
		if !ok {
			return ""
		}
		name = rest
	}
}
