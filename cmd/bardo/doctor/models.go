package doctor

import (
	"strings"

	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/models"
	"bardo.money/gateway/models/manifest"
)

// checkModels compares the files of the local models with their hashes. A usual model that is not installed is no failure: what needs it is off.
func checkModels(h home.Dir, cfg *config.Config) (found []Finding) {
	o, err := settings.LocalModels(cfg, h)
	if err != nil {
		return []Finding{brokenBy("local models", err)}
	}
	all, err := models.Examine(o)
	if err != nil {
		return []Finding{brokenBy("local models", err)}
	}
	for _, kind := range []manifest.Kind{manifest.Embedding, manifest.Injection} {
		found = append(found, checkModel(kind, o.Choice[kind], o.Manifest, all))
	}
	found = append(found, checkInjection(cfg, found[len(found)-1]))
	if settings.FindsNames(cfg) {
		choice := cfg.Models.Entities
		if choice == models.Auto { // make models does not install it, and requests may be refused without it
			choice = o.Manifest.Of(manifest.Entities)[0]
		}
		found = append(found, checkModel(manifest.Entities, choice, o.Manifest, all))
	}
	return found
}

// checkInjection says what detects injections; of is the finding about its model.
func checkInjection(cfg *config.Config, of Finding) Finding {
	const check = "pipeline.injection"
	in := &cfg.Pipeline.Injection
	switch absent := !of.OK || strings.HasPrefix(of.Detail, "off"); {
	case in.Policy == "off":
		return fine(check, "off by configuration")
	case !absent:
		return fine(check, "%s: by patterns and the local model", in.Policy)
	case settings.NeedsModel(in) && cfg.Models.Injection != models.Off:
		return broken(check, "install the model (`make models`), or set models.injection to off, or pipeline.injection.on_error to allow",
			"%s: requests that only the local model can judge are refused, and it does not run", in.Policy)
	}
	return fine(check, "%s: by patterns alone", in.Policy)
}

func checkModel(kind manifest.Kind, choice string, m *manifest.Manifest, all []models.Status) Finding {
	check, name := "models."+string(kind), choice
	switch choice {
	case models.Off:
		return fine(check, "off by configuration")
	case models.Auto:
		name = m.Of(kind)[0]
	}
	for i := range all {
		s := &all[i]
		switch {
		case s.Name != name || s.Kind != kind:
		case s.State == models.StateInstalled:
			return fine(check, "%s, %s", name, s.Detail)
		case s.State == models.StateAbsent && choice == models.Auto:
			return fine(check, "off: %s is not installed; `make models` installs it", name)
		case s.State == models.StateAbsent:
			return broken(check, "install it with `bardo models install "+name+"`, or set "+check+" to auto or off", "%s", s.Detail)
		default:
			return broken(check, "install its files again with `make models` or `bardo models install "+name+"`, or set "+check+" to off", "%s", s.Detail)
		}
	}
	return broken(check, "`bardo models local` lists them", "there is no model %q", name)
}
