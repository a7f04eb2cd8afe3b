package main

import (
	"context"
	"os"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
)

func (s *snap) pb() *csi.Snapshot {
	return &csi.Snapshot{SnapshotId: s.ID, SourceVolumeId: s.Source, SizeBytes: s.Size, CreationTime: timestamppb.New(s.Created), ReadyToUse: true}
}

func (d *driver) CreateSnapshot(_ context.Context, q *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s, ok := d.Snaps[q.Name]; ok {
		if s.Source != q.SourceVolumeId {
			return nil, status.Error(codes.AlreadyExists, "snapshot name used for another volume")
		}
		return &csi.CreateSnapshotResponse{Snapshot: s.pb()}, nil
	}
	v, ok := d.Vols[q.SourceVolumeId]
	if !ok {
		return nil, status.Errorf(codes.NotFound, "volume %s not found", q.SourceVolumeId)
	}
	s := &snap{ID: q.Name, Source: v.ID, Size: v.Size, Created: time.Now()}
	cp := func() error { return copyImg(d.img(v.ID), d.snapImg(s.ID)) }
	var err error
	if q.Parameters["consistency"] == "crash" {
		err = cp()
	} else {
		err = d.quiesced(d.img(v.ID), cp)
	}
	if err != nil {
		return nil, internal(err)
	}
	d.Snaps[s.ID] = s
	if err := d.save(); err != nil {
		return nil, internal(err)
	}
	return &csi.CreateSnapshotResponse{Snapshot: s.pb()}, nil
}

func (d *driver) DeleteSnapshot(_ context.Context, q *csi.DeleteSnapshotRequest) (*csi.DeleteSnapshotResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.Snaps[q.SnapshotId]; ok {
		if err := os.Remove(d.snapImg(q.SnapshotId)); err != nil && !os.IsNotExist(err) {
			return nil, internal(err)
		}
		delete(d.Snaps, q.SnapshotId)
		if err := d.save(); err != nil {
			return nil, internal(err)
		}
	}
	return &csi.DeleteSnapshotResponse{}, nil
}

func (d *driver) ListSnapshots(_ context.Context, q *csi.ListSnapshotsRequest) (*csi.ListSnapshotsResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := &csi.ListSnapshotsResponse{}
	for _, s := range d.Snaps {
		if (q.SnapshotId == "" || q.SnapshotId == s.ID) && (q.SourceVolumeId == "" || q.SourceVolumeId == s.Source) {
			r.Entries = append(r.Entries, &csi.ListSnapshotsResponse_Entry{Snapshot: s.pb()})
		}
	}
	return r, nil
}
