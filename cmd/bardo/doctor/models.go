package doctor

import (
	"strings"

	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/models"
	"bardo.money/gateway/models/manifest"
)

// checkModels verifies the files of the local models by their hashes. An uninstalled default model is not a failure: the features that need it are off.
func checkModels(h home.Dir, cfg *config.Config) (found []Finding) {
	o, err := settings.LocalModels(cfg, h)
	if err != nil {
		return []Finding{failWith("local models", err)}
	}
	all, err := models.Examine(o)
	if err != nil {
		return []Finding{failWith("local models", err)}
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

// checkInjection reports what detects injections; model is the finding about its model.
func checkInjection(cfg *config.Config, model Finding) Finding {
	const check = "pipeline.injection"
	in := &cfg.Pipeline.Injection
	switch absent := !model.OK || strings.HasPrefix(model.Detail, "off"); {
	case in.Policy == "off":
		return pass(check, "off by configuration")
	case !absent:
		return pass(check, "%s: by patterns and the local model", in.Policy)
	case settings.NeedsModel(in) && cfg.Models.Injection != models.Off:
		return fail(check, "install the model (`make models`), or set models.injection to off, or pipeline.injection.on_error to allow",
			"%s: requests that only the local model can judge are refused, and it does not run", in.Policy)
	}
	return pass(check, "%s: by patterns alone", in.Policy)
}

func checkModel(kind manifest.Kind, choice string, m *manifest.Manifest, all []models.Status) Finding {
	check, name := "models."+string(kind), choice
	switch choice {
	case models.Off:
		return pass(check, "off by configuration")
	case models.Auto:
		name = m.Of(kind)[0]
	}
	for i := range all {
		s := &all[i]
		switch {
		case s.Name != name || s.Kind != kind:
		case s.State == models.StateInstalled:
			return pass(check, "%s, %s", name, s.Detail)
		case s.State == models.StateAbsent && choice == models.Auto:
			return pass(check, "off: %s is not installed; `make models` installs it", name)
		case s.State == models.StateAbsent:
			return fail(check, "install it with `bardo models install "+name+"`, or set "+check+" to auto or off", "%s", s.Detail)
		default:
			return fail(check, "install its files again with `make models` or `bardo models install "+name+"`, or set "+check+" to off", "%s", s.Detail)
		}
	}
	return fail(check, "`bardo models local` lists them", "there is no model %q", name)
}
