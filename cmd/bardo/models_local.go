package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/models"
	"bardo.money/gateway/models/manifest"
	"bardo.money/gateway/models/onnx"
)

// loadRuntime loads the library that runs local models. Only this program contains it, not libbardo.so.
func loadRuntime(library string) (models.Runtime, error) {
	version, err := onnx.Load(library)
	return models.Runtime{Version: version, Open: func(path, output string) (models.Session, error) { return onnx.Open(path, output) }}, err
}

// localModel is a local model as `models local --json` prints it.
type localModel struct {
	models.Status

	Licence    string  `json:"licence"`
	Dimensions int     `json:"dimensions"`
	Threshold  float64 `json:"threshold"`
	Address    string  `json:"address,omitempty"` // the publisher's download URL
}

func modelsLocalCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "local", Short: "List the models that run on this machine: which are installed, and why others are not", Args: cli.NoArgs,
	}
	asJSON := cli.JSONFlag(c)
	settings.Flag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		o, err := localOptions(c)
		if err != nil {
			return err
		}
		found, err := models.Examine(o)
		if err != nil {
			return err
		}
		var all []localModel
		var rows [][]string
		for i, s := range found {
			m := &o.Manifest.Models[i]
			all = append(all, localModel{s, m.Licence, m.Dimensions, m.Threshold, m.Files.Model.Address})
			rows = append(rows, []string{s.Name, string(s.Kind), string(s.State), m.Licence, s.Detail})
		}
		if *asJSON {
			return cli.PrintJSON(c, all)
		}
		return cli.PrintTable(c.OutOrStdout(), []string{"MODEL", "KIND", "STATE", "LICENCE", "DETAIL"}, rows)
	}
	return c
}

func localOptions(c *cobra.Command) (models.Options, error) {
	h, err := home.Open()
	if err != nil {
		return models.Options{}, err
	}
	cfg, _, err := settings.ForCommand(c, h)
	if err != nil {
		return models.Options{}, err
	}
	return settings.LocalModels(cfg, h)
}

// source is where a file is installed from, and its expected hash.
type source struct{ path, url, sum string }

func modelsInstallCommand() *cobra.Command {
	var model, tokenizer source
	c := &cobra.Command{
		Use: "install MODEL", Short: "Install a model of `bardo models local` from files, or from where its publisher offers it",
		Long: "Install a model of `bardo models local` from files, from URLs, or from the addresses where its publisher offers it, into models.dir or\n" +
			"$BARDO_HOME/models. A model is two files, which are installed if their SHA-256 is the expected one: the one that this program knows, or the\n" +
			"one that --sha256 and --tokenizer-sha256 say. models.embedding or models.injection then selects the model.",
		Args: cli.OneArg("the name of a model"),
	}
	c.Flags().StringVar(&model.path, "file", "", "the model, an ONNX file")
	c.Flags().StringVar(&model.url, "url", "", "where to fetch it instead")
	c.Flags().StringVar(&model.sum, "sha256", "", "its SHA-256")
	c.Flags().StringVar(&tokenizer.path, "tokenizer-file", "", "the model's tokenizer.json")
	c.Flags().StringVar(&tokenizer.url, "tokenizer-url", "", "where to fetch it instead")
	c.Flags().StringVar(&tokenizer.sum, "tokenizer-sha256", "", "its SHA-256")
	c.MarkFlagsMutuallyExclusive("file", "url")
	c.MarkFlagsMutuallyExclusive("tokenizer-file", "tokenizer-url")
	settings.Flag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		o, err := localOptions(c)
		if err != nil {
			return err
		}
		m, ok := o.Manifest.Model(args[0])
		if !ok {
			return fmt.Errorf("there is no model %q; `bardo models local` lists them", args[0])
		}
		for _, part := range []struct {
			file manifest.File
			from source
		}{{m.Files.Tokenizer, tokenizer}, {m.Files.Model, model}} {
			if err := install(c.Context(), o.Dirs[0], part.file, part.from); err != nil {
				return err
			}
		}
		_, err = fmt.Fprintf(c.OutOrStdout(), "%s is installed in %s; models.%s: %s selects it\n", m.Name, o.Dirs[0], m.Kind, m.Name)
		return err
	}
	return c
}

// install installs one file of a model.
func install(ctx context.Context, dir string, f manifest.File, from source) (err error) {
	if f.SHA256 == "" && from.sum == "" {
		return fmt.Errorf("%s: its hash is not known here: say the one that its publisher shows, with --sha256 and --tokenizer-sha256", f.Name)
	}
	content, err := open(ctx, f, from)
	if err != nil {
		return fmt.Errorf("%s: %w", f.Name, err)
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	return manifest.Install(dir, f, from.sum, content)
}

// fetchTimeout bounds the download of a file.
const fetchTimeout = time.Hour

func open(ctx context.Context, f manifest.File, from source) (io.ReadCloser, error) {
	if from.path != "" {
		return os.Open(from.path)
	}
	if from.url == "" {
		from.url = f.Address
	}
	if from.url == "" {
		return nil, errors.New("its publisher offers no such file: `make models` makes it, or name one with --file or --tokenizer-file")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from.url, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := (&http.Client{Timeout: fetchTimeout}).Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("%s answers %s", from.url, resp.Status)
	}
	return resp.Body, nil
}
