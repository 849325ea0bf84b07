package web

import (
	"legwork/internal/catalog"
	"legwork/internal/fault"
)

func componentsPage() page {
	return page{path: "/-/components", load: func(v *visit) (content, error) {
		return content{title: "Components", body: showcase(v)}, nil
	}}
}

func componentsSheet() sheet {
	return sheet{path: "/-/components/sheet", need: catalog.Read,
		show: func(_ *visit, f form) (sheetContent, error) {
			return sheetContent{"Remove edge-1?", exampleForm(f)}, nil
		},
		act: func(_ *visit, f form) (outcome, error) {
			if f.get("name") != "edge-1" {
				return outcome{}, fault.New(fault.Invalid, "name_wrong", "that is not its name").
					WithDetails(fault.Problem{Field: "name", Message: "that is not its name: it is edge-1"})
			}
			return outcome{next: "/-/components", note: "edge-1 would be removed now."}, nil
		},
	}
}
