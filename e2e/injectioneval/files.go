package injectioneval

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"unicode/utf8"

	"bardo.money/gateway/extproc/injection"
)

// maxFile is the size in bytes of the largest file that Files reads.
const maxFile = 100_000

// Files judges the text files of folders as results of tools, and writes those that count as injections, with their scores and kinds of patterns. Files without an
// extension of text, large ones and other than UTF-8 are left out.
func Files(ctx context.Context, c injection.Classifier, w io.Writer, folders ...string) error {
	d := injection.NewDetector(c, 0, func(error) bool { return false })
	all, found := 0, 0
	visit := func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !slices.Contains([]string{".md", ".rst", ".txt", ".go", ".js", ".ts", ".py", ".json", ".yaml", ".html"}, filepath.Ext(path)) {
			return err
		}
		if info, err := e.Info(); err != nil || info.Size() > maxFile {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil || !utf8.Valid(text) {
			return err
		}
		all++
		f, err := d.Find(ctx, string(text))
		if score := f.Score(injection.Result); err == nil && score >= injection.DefaultThreshold {
			found++
			_, err = fmt.Fprintf(w, "%.2f (patterns %.2f %v, model %.2f) %s\n", score, f.Pattern, f.Kinds.Names(), f.Model, path)
		}
		return err
	}
	for _, folder := range folders {
		if err := filepath.WalkDir(folder, visit); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "%d of %d files\n", found, all)
	return err
}
