package ecs

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"

	"legwork/internal/fault"
)

// regions are those that AWS had when this was written. One that is missing here is looked up by the name of its endpoint.
var regions = strings.Fields(`af-south-1
	ap-east-1 ap-east-2 ap-northeast-1 ap-northeast-2 ap-northeast-3 ap-south-1 ap-south-2
	ap-southeast-1 ap-southeast-2 ap-southeast-3 ap-southeast-4 ap-southeast-5 ap-southeast-6 ap-southeast-7
	ca-central-1 ca-west-1 cn-north-1 cn-northwest-1
	eu-central-1 eu-central-2 eu-north-1 eu-south-1 eu-south-2 eu-west-1 eu-west-2 eu-west-3
	il-central-1 me-central-1 me-south-1 mx-central-1 sa-east-1
	us-east-1 us-east-2 us-gov-east-1 us-gov-west-1 us-west-1 us-west-2`)

// knownRegion refuses a region that is not there, with those that may be meant.
func (f *fargate) knownRegion(ctx context.Context, region string) error {
	if slices.Contains(regions, region) {
		return nil
	}
	_, err := f.lookup(ctx, "ecs."+region+".amazonaws.com")
	var missing *net.DNSError
	if !errors.As(err, &missing) || !missing.IsNotFound {
		return nil // a new one, or nobody can tell
	}
	near := nearRegions(region)
	return fault.New(fault.Invalid, "launcher_region", "AWS has no region %q", region).
		WithHint("did you mean %s? Set it in hosting.region or in the cloud identity", strings.Join(near, ", "))
}

// nearRegions gives the three regions whose names are nearest.
func nearRegions(region string) []string {
	near := slices.Clone(regions)
	slices.SortStableFunc(near, func(a, b string) int { return distance(region, a) - distance(region, b) })
	return near[:3]
}

// distance is how many letters are to be put in, taken out or replaced to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
