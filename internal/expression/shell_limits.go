package expression

import "fmt"

// Limits of a shell text with templates. The parser calls itself for each nesting, and a stack that overflows ends the
// whole process; the check visits some parts of a text several times.
const (
	maxShellText = 128 << 10 // bytes
	maxOpeners   = 5_000     // brackets and braces that may begin a nesting
	maxOperators = 500       // operators without an operand between them, which the parser nests

	// Steps of the check: a few for each byte, so that many texts take no longer than one of their size.
	minSteps     = 50_000
	stepsPerByte = 12
)

const reasonComplex = "is in a text that is too complex to be checked: " +
	"move a part of the text into a script without templates"

// tooLarge returns why a text is not given to the parser; "" if it is.
func tooLarge(text string) string {
	if len(text) > maxShellText {
		return fmt.Sprintf("is in a text of more than %d KiB: move a part of it into a script without templates",
			maxShellText>>10)
	}
	openers, operators := 0, 0
	for i := range len(text) {
		switch text[i] {
		case '(':
			openers++
			operators = 0
		case '{':
			if i == 0 || text[i-1] != '$' {
				openers++
			}
			operators = 0
		case '!', '-', '+', '~':
			operators++
		case ' ', '\t', '\n', '\\':
		default:
			operators = 0
		}
		if openers > maxOpeners || operators > maxOperators {
			return reasonComplex
		}
	}
	return ""
}

// spend counts steps of the check. It returns false, and refuses the text, when there were too many.
func (c *syntaxCheck) spend(steps int) bool {
	c.steps -= steps
	if c.steps < 0 && c.why == "" {
		c.why, c.place = reasonComplex, c.places[0]
	}
	return c.steps >= 0
}
