package web

import (
	"testing"
)

// Each of the sixteen colours can be read on the ground of the log, and the ground on each of them.
func TestLogContrast(t *testing.T) {
	a := loadAssets()
	token := func(file, name string) [2]string {
		for _, m := range colourToken.FindAllSubmatch(a.files[a.names[file]].plain, -1) {
			if string(m[1]) == name {
				return [2]string{string(m[2]), string(m[3])}
			}
		}
		t.Fatalf("there is no %s in %s", name, file)
		return [2]string{}
	}
	ground := token("app.css", "log-ground")
	colours := 0
	for _, m := range colourToken.FindAllSubmatch(a.files[a.names["log.css"]].plain, -1) {
		for theme := range ground {
			if c := contrast(t, string(m[2+theme]), ground[theme]); c < 4.5 {
				t.Errorf("%s on the ground of the log: %.2f", m[1], c)
			}
		}
		colours++
	}
	if colours != 15 { // the sixteenth, black, is the ground: its text is grey
		t.Errorf("%d colours", colours)
	}
}
