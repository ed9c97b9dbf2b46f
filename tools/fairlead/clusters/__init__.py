"""Where Fairlead deploys: one module for what differs by cluster (base), one folder for each kind."""
