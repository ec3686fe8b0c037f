package watch

import (
	"context"
	"errors"
	"io"
	"os"

	"charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"bardo.money/gateway/cmd/bardo/home"
)

// watchScreen draws on a terminal until the person leaves, ctx is done, or there is no gateway to begin with.
func watchScreen(ctx context.Context, h home.Dir, in io.Reader, out *os.File) error {
	return runScreen(ctx, h, tea.WithInput(in), tea.WithOutput(out))
}

func runScreen(ctx context.Context, h home.Dir, options ...tea.ProgramOption) error {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	p := tea.NewProgram(screen{view: &view{}}, append(options, tea.WithContext(ctx), tea.WithoutSignalHandler())...)
	followed := make(chan error, 1)
	go func() {
		defer leave()
		followed <- follow(ctx, h, func(s sight) { p.Send(s) })
	}()
	_, err := p.Run()
	leave()
	if errors.Is(err, tea.ErrProgramKilled) { // by ctx
		err = nil
	}
	return errors.Join(err, <-followed)
}

// screen is a view on a terminal of a known size.
type screen struct {
	view          *view
	width, height int
}

var _ tea.Model = screen{}

// Init implements tea.Model: there is nothing to begin with.
func (s screen) Init() tea.Cmd { return nil }

// Update implements tea.Model.
func (s screen) Update(m tea.Msg) (tea.Model, tea.Cmd) {
	switch m := m.(type) {
	case tea.WindowSizeMsg:
		s.width, s.height = m.Width, m.Height
	case tea.KeyPressMsg:
		switch m.String() {
		case "q", "esc", "ctrl+c":
			return s, tea.Quit
		}
	case sight:
		s.view.take(m)
	}
	return s, nil
}

// View implements tea.Model.
func (s screen) View() tea.View {
	if s.width == 0 { // the size of the terminal is not known yet
		return tea.NewView("")
	}
	const keys = "q leaves"
	v := tea.NewView(s.view.render(s.width, s.height-1, coloured) + "\n" + coloured(moodFaint, keys))
	v.AltScreen = true
	v.WindowTitle = "bardo watch"
	return v
}

var colours = map[mood]lipgloss.Style{
	moodPlain: lipgloss.NewStyle(),
	moodHead:  lipgloss.NewStyle().Bold(true),
	moodGood:  lipgloss.NewStyle().Foreground(lipgloss.Green),
	moodWarn:  lipgloss.NewStyle().Foreground(lipgloss.Yellow),
	moodBad:   lipgloss.NewStyle().Foreground(lipgloss.Red),
	moodFaint: lipgloss.NewStyle().Faint(true),
}

// coloured is the palette of terminals; those without colours drop them.
func coloured(m mood, text string) string {
	style, ok := colours[m]
	if !ok || text == "" {
		return text
	}
	return style.Render(text)
}
