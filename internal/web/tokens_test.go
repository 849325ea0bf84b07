package web

import (
	"math"
	"strconv"
	"testing"

	"legwork/internal/work"
)

// pairs are what is written on what, and how much it has to stand out: 4.5 is WCAG 2.2 AA for text, 3 for shapes and lines.
var pairs = []struct {
	ink, ground string
	least       float64
}{
	{"ink", "ground", 4.5}, {"ink", "surface", 4.5}, {"ink", "raised", 4.5}, {"ink", "sunken", 4.5}, {"ink", "hover", 4.5}, {"ink", "accent-ground", 4.5},
	{"ink-soft", "ground", 4.5}, {"ink-soft", "surface", 4.5}, {"ink-soft", "raised", 4.5}, {"ink-soft", "sunken", 4.5}, {"ink-soft", "hover", 4.5},
	{"ink-soft", "accent-ground", 4.5}, {"ink-soft", "bad-ground", 4.5}, {"ink-soft", "warn-ground", 4.5}, {"ink-soft", "good-ground", 4.5},
	{"ink", "bad-ground", 4.5}, {"ink", "warn-ground", 4.5}, {"ink", "good-ground", 4.5},
	{"ink-faint", "ground", 4.5}, {"ink-faint", "surface", 4.5}, {"ink-faint", "raised", 4.5}, {"ink-faint", "sunken", 4.5}, {"ink-faint", "hover", 4.5},
	{"accent", "ground", 4.5}, {"accent", "surface", 4.5}, {"accent", "hover", 4.5}, {"accent", "sunken", 4.5}, {"accent", "accent-ground", 4.5},
	{"on-accent", "accent-fill", 4.5}, {"on-danger", "danger-fill", 4.5},
	{"good", "good-ground", 4.5}, {"busy", "busy-ground", 4.5}, {"warn", "warn-ground", 4.5}, {"bad", "bad-ground", 4.5}, {"ask", "ask-ground", 4.5}, {"calm", "calm-ground", 4.5},
	{"bad", "surface", 4.5}, {"bad", "raised", 4.5}, {"bad", "sunken", 4.5}, {"good", "sunken", 4.5}, {"ask", "surface", 4.5}, {"good", "ground", 4.5},
	{"line-strong", "surface", 3}, {"line-strong", "raised", 3}, {"focus", "ground", 3}, {"focus", "surface", 3}, {"focus", "raised", 3},
	{"busy", "surface", 3}, {"warn", "surface", 3}, {"good", "surface", 3},
	{"log-ink", "log-ground", 4.5}, {"log-faint", "log-ground", 4.5},
}

func TestContrast(t *testing.T) {
	found := map[string][2]string{}
	for _, m := range colourToken.FindAllSubmatch(loadAssets().files[loadAssets().names["app.css"]].plain, -1) {
		found[string(m[1])] = [2]string{string(m[2]), string(m[3])}
	}
	for _, p := range pairs {
		for i, theme := range []string{"light", "dark"} {
			ink, ground := found[p.ink][i], found[p.ground][i]
			if ink == "" || ground == "" {
				t.Fatalf("there is no %s or %s", p.ink, p.ground)
			}
			if c := contrast(t, ink, ground); c < p.least {
				t.Errorf("%s on %s (%s): %.2f, at least %.1f", p.ink, p.ground, theme, c, p.least)
			}
		}
	}
}

// contrast is that of two colours by WCAG 2.2: 1 to 21.
func contrast(t *testing.T, a, b string) float64 {
	la, lb := luminance(t, a), luminance(t, b)
	return (max(la, lb) + 0.05) / (min(la, lb) + 0.05)
}

func luminance(t *testing.T, colour string) (l float64) {
	t.Helper()
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, err := strconv.ParseUint(colour[1+2*i:3+2*i], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		c := float64(n) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		l += weight * c
	}
	return l
}

func TestContrastIsThatOfTheStandard(t *testing.T) {
	if c := contrast(t, "#000000", "#ffffff"); math.Abs(c-21) > 0.01 {
		t.Error(c)
	}
	if c := contrast(t, "#777777", "#ffffff"); math.Abs(c-4.48) > 0.01 {
		t.Error(c)
	}
}

// No state is told by its colour alone: of one kind of thing no two share a shape and a word.
func TestStatesHaveShapes(t *testing.T) {
	for _, s := range work.Statuses {
		if _, ok := jobMoods[s]; !ok {
			t.Errorf("nothing is said of how %s looks", s)
		}
	}
	shapes(t, jobMoods)
	shapes(t, instanceMoods)
	shapes(t, runnerMoods)
	shapes(t, moduleMoods)
	shapes(t, nodeMoods)
	shapes(t, sourceMoods)
}

func shapes[S ~string](t *testing.T, moods map[S]mood) {
	t.Helper()
	seen := map[string]S{}
	for state, m := range moods {
		if other, ok := seen[m.icon]; ok {
			t.Errorf("%s and %s have one shape", state, other)
		}
		seen[m.icon] = state
	}
}
